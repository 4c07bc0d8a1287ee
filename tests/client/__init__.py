"""The client: messages, errors, the operator table, and both clients against fake servers."""
