"""Writes the drawings to docs/images."""

from tests.drawings.catalogue import DRAWINGS, FOLDER

for name, draw in DRAWINGS.items():
    (FOLDER / name).write_text(draw().source())
