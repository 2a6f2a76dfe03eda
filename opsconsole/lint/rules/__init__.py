"""The rule table, one module per hundred. `opsconsole.lint.rules.table` joins them."""
