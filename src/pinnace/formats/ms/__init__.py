"""Reader of MindSpore Lite's `.ms`, a FlatBuffer."""

from pinnace.formats.ms.reader import read as read
