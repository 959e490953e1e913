"""Where executables run: admission, cores."""
