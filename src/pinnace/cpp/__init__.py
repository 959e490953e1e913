"""C++ programs: headers with mindspore_lite's declarations, and the library, which embeds Python."""
