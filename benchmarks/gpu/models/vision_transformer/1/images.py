"""The image of a request: its pixels row by row, each with a byte for red, green and blue."""


class InvalidImage(Exception):
    """It does not have the size that it should have."""


def read_image(tensor, side):
    """Return the bytes of a tensor with one image; raise InvalidImage, which says what it should be."""
    if tensor.size != 1:
        raise InvalidImage(f"the input `image` has {tensor.size} elements; it must have one for each request")
    image = tensor.item()
    if len(image) != 3 * side**2:
        raise InvalidImage(
            f"the image has {len(image)} bytes; it must have {3 * side**2}: {side} × {side} pixels as RGB"
        )
    return image
