"""Random calls of MindSpore's functions, computed by MindSpore and by Pinnace; `__main__` says how."""
