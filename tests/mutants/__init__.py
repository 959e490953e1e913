"""Small changes of the code that a test should notice."""
