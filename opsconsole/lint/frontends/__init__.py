"""Front ends of the linter: each turns one kind of file into ordered prompt parts. None of them decides a verdict."""
