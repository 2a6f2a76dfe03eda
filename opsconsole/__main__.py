"""`python -m opsconsole`."""

from opsconsole.cli import main

if __name__ == "__main__":
    main()
