"""The data frame interchange protocol (data-apis.org/dataframe-protocol) over a Table, so that no library of tables is
needed here. Numbers are handed on as they are, words and other values as UTF-8 text."""

import array
import enum
import math

from ._table import Words, numpy


class _Kind(enum.IntEnum):
    INT, UINT, FLOAT, BOOL, STRING = 0, 1, 2, 20, 21


class _Null(enum.IntEnum):
    NON_NULLABLE, USE_NAN, USE_SENTINEL, USE_BITMASK, USE_BYTEMASK = range(5)


class Buffer:
    """Values one after the other in memory that this object keeps."""

    def __init__(self, values):
        self._kept = values
        view = memoryview(values).cast("B") if len(values) else memoryview(b"")
        self.bufsize = view.nbytes
        if numpy is not None and isinstance(values, numpy.ndarray):
            self.ptr = values.ctypes.data
        else:
            self.ptr = values.buffer_info()[0]

    def __dlpack__(self):
        raise NotImplementedError("__dlpack__")

    def __dlpack_device__(self):
        return 1, None  # the CPU


class Column:
    def __init__(self, name, values):
        self._name, self.offset, self.metadata = name, 0, {}
        if isinstance(values, Words) or not _numbers(values):
            self._text([None if v is None else str(v) for v in values])
        elif any(isinstance(v, float) or v is None for v in values) or getattr(values, "dtype", None) == "float64":
            self._set(_Kind.FLOAT, 64, "g", array.array("d", [math.nan if v is None else v for v in values]))
        else:
            self._set(_Kind.INT, 64, "l", array.array("q", [int(v) for v in values]))

    def _set(self, kind, bits, code, values):
        self.dtype = (kind, bits, code, "=")
        self._data, self._offsets, self._valid, self._length = values, None, None, len(values)

    def _text(self, words):
        encoded = [(w or "").encode() for w in words]
        ends = array.array("q", [0])
        for w in encoded:
            ends.append(ends[-1] + len(w))
        self._set(_Kind.STRING, 8, "u", array.array("B", b"".join(encoded)))
        self._offsets, self._length = ends, len(words)
        self._valid = array.array("B", [w is not None for w in words])

    def size(self):
        return self._length

    @property
    def describe_categorical(self):
        raise TypeError("this column is not categorical")

    @property
    def describe_null(self):
        if self.dtype[0] == _Kind.STRING:
            return _Null.USE_BYTEMASK, 0
        return (_Null.USE_NAN if self.dtype[0] == _Kind.FLOAT else _Null.NON_NULLABLE), None

    @property
    def null_count(self):
        return self._valid.count(0) if self._valid is not None else None

    def num_chunks(self):
        return 1

    def get_chunks(self, n_chunks=None):
        yield self

    def get_buffers(self):
        whole = (_Kind.INT, 64, "l", "=")
        return {"data": (Buffer(self._data), self.dtype),
                "offsets": None if self._offsets is None else (Buffer(self._offsets), whole),
                "validity": None if self._valid is None else (Buffer(self._valid), (_Kind.BOOL, 8, "b", "="))}


class Frame:
    version = 0

    def __init__(self, table, allow_copy=True):
        self._table, self._allow_copy, self.metadata = table, allow_copy, {}

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return Frame(self._table, allow_copy)

    def num_columns(self):
        return len(self._table.columns)

    def num_rows(self):
        return len(self._table)

    def num_chunks(self):
        return 1

    def column_names(self):
        return self._table.columns

    def get_column(self, i):
        return self.get_column_by_name(self._table.columns[i])

    def get_column_by_name(self, name):
        return Column(name, self._table[name])

    def get_columns(self):
        return [self.get_column_by_name(name) for name in self._table.columns]

    def select_columns(self, indices):
        return self.select_columns_by_name([self._table.columns[i] for i in indices])

    def select_columns_by_name(self, names):
        return Frame(type(self._table)({name: self._table[name] for name in names}), self._allow_copy)

    def get_chunks(self, n_chunks=None):
        yield self


def _numbers(values):
    return all(v is None or (not isinstance(v, bool) and isinstance(v, (int, float)) or hasattr(v, "item"))
               for v in values)
