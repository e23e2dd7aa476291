"""Draws lines of text as images and prepares them for the classifier.

The preparation is that of the model's own package: height 48 keeping the ratio,
at most 192 wide, padded with zeros on the right; (x / 255 - 0.5) / 0.5; blue,
green, red; channels first.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONTS = Path("/usr/share/fonts/truetype/dejavu")
HEIGHT, WIDTH = 48, 192

# (text, font, ink, paper, turned by 180 degrees or None: no telling)
LINES = [
    ("Platform 9, change here", "DejaVuSans.ttf", "#101010", "#ffffff", False),
    ("TOTAL 1,284.50 EUR", "DejaVuSansMono.ttf", "#202020", "#f4f0e6", True),
    ("fresh bread every day", "DejaVuSerif.ttf", "#5b2c06", "#fff4dc", False),
    ("No parking at any time", "DejaVuSans-Bold.ttf", "#ffffff", "#b01020", True),
    ("serial 7F3A-22C9-0B1E", "DejaVuSansMono-Bold.ttf", "#c8f0c8", "#103018", False),
    ("Please mind the step", "DejaVuSans-Bold.ttf", "#202020", "#ffd400", True),
    # These two read the same both ways: the answer is a guess, far from 0 and 1,
    # so that a small error in the arithmetic shows.
    ("NOON SWIMS", "DejaVuSans.ttf", "#101010", "#ffffff", None),
    ("SOS XOX NOON SOS", "DejaVuSans-Bold.ttf", "#101010", "#ffffff", None),
]


@dataclass
class Line:
    """One drawn line: `image` as a person sees it, `tensor` for the model."""

    text: str
    turned: Optional[bool]
    image: Image.Image
    tensor: np.ndarray  # float32 [1, 3, 48, 192]


def draw(text, font, ink, paper, turned):
    """Renders one line with a little margin, upright or upside down."""
    face = ImageFont.truetype(str(FONTS / font), 34)
    left, top, right, bottom = face.getbbox(text)
    image = Image.new("RGB", (right - left + 16, bottom - top + 14), paper)
    ImageDraw.Draw(image).text((8 - left, 7 - top), text, font=face, fill=ink)
    return image.rotate(180) if turned else image


def prepare(image):
    """float32 [1, 3, 48, 192] in [-1, 1], zero where there is no image."""
    width = min(WIDTH, -(-HEIGHT * image.width // image.height))
    pixels = np.asarray(image.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)
    channels = pixels[:, :, ::-1].transpose(2, 0, 1)
    tensor = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    tensor[0, :, :, :width] = (channels / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    return tensor


def drawLines():
    """All lines of the demo, in order."""
    lines = []
    for text, font, ink, paper, turned in LINES:
        image = draw(text, font, ink, paper, turned)
        lines.append(Line(text, turned, image, prepare(image)))
    return lines
