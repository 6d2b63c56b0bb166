"""JSON of an answer as Python values: keys as attributes, lists of like objects as tables."""

from collections.abc import Mapping

from ._table import Table


class Values(Mapping):
    """An object of the JSON: value.key and value["key"] are the same."""

    def __init__(self, data):
        self._data = data

    def __getitem__(self, key):
        return wrapped(self._data[key])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} here, but {', '.join(self._data)}") from None

    def __iter__(self):
        return iter(self._data)

    def __len__(self):
        return len(self._data)

    def __dir__(self):
        return [*super().__dir__(), *self._data]

    def __repr__(self):
        return f"{type(self).__name__}({self._data!r})"

    def to_dict(self):
        return self._data


def wrapped(value):
    if isinstance(value, dict):
        return Values(value)
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return Table.of_rows(value)
    return value
