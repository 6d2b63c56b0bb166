"""Tables of an answer: columns by name, rows by number, and on to numpy, pandas, polars, DuckDB or pyarrow."""

import collections.abc
import csv
import html
import io

try:
    import numpy
except ImportError:  # everything but to_numpy() works without
    numpy = None

_SHOWN = 20  # rows in a notebook


class Words(collections.abc.Sequence):
    """A column of few different words: `codes` are places in `categories`."""

    def __init__(self, codes, categories):
        self.codes, self.categories = codes, categories

    def __len__(self):
        return len(self.codes)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [self.categories[c] for c in self.codes[at]]
        return self.categories[self.codes[at]]


class Table:
    """Columns of equal length. table["start_s"] is a column, table[0] a row (a dict), len(table) the number of rows."""

    def __init__(self, columns, units=None):
        self._columns, self.units = dict(columns), dict(units or {})

    @classmethod
    def of_rows(cls, rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    @classmethod
    def of_answer(cls, answer, name):
        columns, units = {}, {}
        for about in answer.tables()[name]:
            values, words = answer.column(name, about["name"])
            if numpy is not None:
                values = numpy.frombuffer(values, dtype=values._type_) if len(values) else numpy.empty(0, values._type_)
                values.flags.writeable = False
            columns[about["name"]] = Words(values, words) if about["words"] else values
            units[about["name"]] = about["unit"]
        return cls(columns, units)

    @property
    def columns(self):
        return list(self._columns)

    def __len__(self):
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, key):
        if isinstance(key, str):
            return self._columns[key]
        if isinstance(key, slice):
            return Table({name: values[key] for name, values in self._columns.items()}, self.units)
        if not -len(self) <= key < len(self):
            raise IndexError(key)
        return {name: _plain(values[key]) for name, values in self._columns.items()}

    def __getattr__(self, name):
        try:
            return self.__dict__["_columns"][name]
        except KeyError:
            raise AttributeError(f"a table of {', '.join(self.__dict__.get('_columns', ()))} has no column {name!r}") from None

    def __dir__(self):
        return [*super().__dir__(), *self._columns]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __eq__(self, other):
        return isinstance(other, Table) and self.columns == other.columns and list(self) == list(other)

    def __repr__(self):
        return f"<table of {len(self)} rows: {', '.join(self._columns)}>"

    def to_pandas(self):
        import pandas

        def series(values):
            if isinstance(values, Words):
                return pandas.Categorical.from_codes(values.codes, values.categories)
            return values

        return pandas.DataFrame({name: series(values) for name, values in self._columns.items()})

    def to_numpy(self):
        """A structured array: a field per column."""
        if numpy is None:
            raise ImportError("to_numpy() needs numpy")
        arrays = {name: numpy.asarray(values) for name, values in self._columns.items()}
        result = numpy.empty(len(self), [(name, values.dtype) for name, values in arrays.items()])
        for name, values in arrays.items():
            result[name] = values
        return result

    def to_csv(self, path=None):
        """The text, or written to a file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self._columns)
        writer.writerows(row.values() for row in self)
        if path is None:
            return text.getvalue()
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        """The interchange protocol of data frames: polars, DuckDB, pyarrow and others read it."""
        from ._interchange import Frame
        return Frame(self, allow_copy)

    def _repr_html_(self):
        cell = lambda tag, value: f"<{tag}>{html.escape(_shown(value))}</{tag}>"
        head = "".join(cell("th", name) for name in self._columns)
        body = "".join(f"<tr>{''.join(cell('td', value) for value in self[i].values())}</tr>"
                       for i in range(min(len(self), _SHOWN)))
        more = f"<p>{len(self):,} rows</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _plain(value):
    return value.item() if hasattr(value, "item") else value


def _shown(value):
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
