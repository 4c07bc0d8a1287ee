"""msprobe's formats, on files that msprobe wrote and on broken ones. Only tests/frameworks needs msprobe itself."""
