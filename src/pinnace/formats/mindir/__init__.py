"""Reader of MindIR, a protobuf message."""

from pinnace.formats.mindir.reader import read as read
