"""Byte-addressed memory that keeps only the pages that were written."""

__all__ = ["SparseMemory"]

PAGE_BYTES = 4096


class SparseMemory:
    """`total_bytes` bytes, zero until written."""

    def __init__(self, total_bytes: int):
        self.total_bytes = total_bytes
        self._pages: dict[int, bytearray] = {}

    def _spans(self, address: int, length: int):
        """(page, first byte in it, offset in the data, bytes) of each page that a range touches."""
        done = 0
        while done < length:
            page, start = divmod(address + done, PAGE_BYTES)
            count = min(length - done, PAGE_BYTES - start)
            yield page, start, done, count
            done += count

    def read(self, address: int, length: int) -> bytes:
        data = bytearray(length)
        for page, start, offset, count in self._spans(address, length):
            if page in self._pages:
                data[offset : offset + count] = self._pages[page][start : start + count]
        return bytes(data)

    def write(self, address: int, data: bytes) -> None:
        for page, start, offset, count in self._spans(address, len(data)):
            held = self._pages.setdefault(page, bytearray(PAGE_BYTES))
            held[start : start + count] = data[offset : offset + count]

    def write_strobed(self, address: int, data: bytes, strobe: int) -> None:
        """Write byte i of `data` where bit i of `strobe` is set."""
        for i, byte in enumerate(data):
            if strobe >> i & 1:
                self.write(address + i, bytes((byte,)))
