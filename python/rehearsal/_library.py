"""librehearsal.so.0 by ctypes: one function that takes the words of a command line (include/rehearsal.h)."""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import threading

ABI = 0
_NAME = f"librehearsal.so.{ABI}"


class Error(ValueError):
    """Wrong input. The text is the program's own: where it is wrong and how to mend it."""


class MachineError(RuntimeError):
    """This machine lacks something: memory, a device, a package."""


class InternalError(RuntimeError):
    """A bug of Rehearsal; please report it with the input."""


def _found():
    """The library: $REHEARSAL_LIBRARY, in this package (a wheel), where this package was installed together with it, what a
    source tree has built, or the system's."""
    given = os.environ.get("REHEARSAL_LIBRARY")
    if given:
        return given
    package = pathlib.Path(__file__).resolve().parent
    for folder in (package / "program" / "lib", package.parents[2]):  # PREFIX/lib/python3/dist-packages/rehearsal
        if (folder / _NAME).exists():
            return str(folder / _NAME)
    tree = package.parent.parent
    if (tree / "CMakePresets.json").exists():
        built = [p for p in tree.glob(f"build/*/{_NAME}") if p.parent.name in ("release", "dev", "portable")]
        if built:
            return str(max(built, key=lambda p: p.stat().st_mtime))
    return _NAME


def _load():
    path = _found()
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"rehearsal: cannot load {path}: {error}. Install the package 'rehearsal', build the target "
                          "'rehearsal' of a source tree, or set REHEARSAL_LIBRARY to the file.") from None
    text, size = ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
    for name, result, arguments in [
            ("new", ctypes.c_void_p, [text, text]),
            ("progress", None, [ctypes.c_void_p, _SAY, ctypes.c_void_p]),
            ("perform", ctypes.c_int, [ctypes.c_void_p]),
            ("cancel", None, [ctypes.c_void_p]),
            ("status", ctypes.c_int, [ctypes.c_void_p]),
            ("out", ctypes.c_void_p, [ctypes.c_void_p, size]),
            ("err", ctypes.c_void_p, [ctypes.c_void_p, size]),
            ("file", ctypes.c_void_p, [ctypes.c_void_p, text, size]),
            ("tables", text, [ctypes.c_void_p]),
            ("column", ctypes.c_void_p, [ctypes.c_void_p, text, text, size, text]),
            ("words", ctypes.POINTER(text), [ctypes.c_void_p, text, text, size]),
            ("free", None, [ctypes.c_void_p]),
            ("version", text, [])]:
        function = getattr(lib, f"rehearsal_{name}")
        function.restype, function.argtypes = result, arguments
    return lib


_SAY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
_lib = _load()
_TYPES = {"d": ctypes.c_double, "q": ctypes.c_int64, "i": ctypes.c_int32, "B": ctypes.c_uint8}

# Python delivers Ctrl-C to its main thread, and only between its own instructions: what the main thread asks is
# performed by another one, while it waits. A child process starts without that thread.
_performer = None


def _forget_performer():
    global _performer
    _performer = None


os.register_at_fork(after_in_child=_forget_performer)


class _Handle:
    """Owns an answer of the library: freed when nobody refers to it any more, the thread that performs it included."""

    def __init__(self, words, files):
        self.pointer = _lib.rehearsal_new(words, files)

    def __del__(self):
        if _lib:
            _lib.rehearsal_free(self.pointer)

    def perform(self):
        return _lib.rehearsal_perform(self.pointer)

    def cancel(self):
        _lib.rehearsal_cancel(self.pointer)


def _perform(handle):
    global _performer
    if threading.current_thread() is not threading.main_thread():
        return handle.perform()
    try:
        if _performer is None:
            _performer = concurrent.futures.ThreadPoolExecutor(1, "rehearsal")
        running = _performer.submit(handle.perform)
        return running.result()
    except KeyboardInterrupt:
        handle.cancel()  # a second Ctrl-C leaves it behind: the handle lives as long as the thread needs it
        running.result()
        raise


def _kept(status, out, err):
    answer = Answer.__new__(Answer)
    answer._handle, answer.status, answer._texts = None, status, (out, err)
    return answer


class Answer:
    """What the program says to the words of a command line. `status`: 0 done, 1 a checked condition does not hold. A copy
    in another process has the texts, and no columns."""

    def __init__(self, words, files=None, progress=None):
        if progress is not None and not callable(progress):
            raise TypeError("progress is a function of one text, such as print")
        lines = json.dumps([os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in words])
        self._texts = None
        self._handle = _Handle(lines.encode("utf-8", "surrogateescape"), json.dumps(files).encode() if files else None)
        failed = []
        if progress:
            handle = self._handle

            def say(_, line):
                try:
                    progress(line.decode(errors="replace"))
                except BaseException as error:  # ctypes would swallow it
                    failed.append(error)
                    handle.cancel()

            self._say = _SAY(say)
            _lib.rehearsal_progress(self._handle.pointer, self._say, None)
        self.status = _perform(self._handle)
        if failed:
            raise failed[0]
        if self.status == 130:
            raise KeyboardInterrupt
        if self.status in (0, 1):
            return
        kind = {2: Error, 3: MachineError}.get(self.status, InternalError)
        error = kind(self.err.strip() or f"status {self.status}")
        error.answer = self  # with what was said besides
        raise error

    def __reduce__(self):
        return _kept, (self.status, self.out, self.err)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self  # nothing of it changes

    @property
    def has_columns(self):
        return self._handle is not None

    def _text(self, function, *which):
        bytes_ = ctypes.c_size_t()
        at = function(self._handle.pointer, *which, ctypes.byref(bytes_))
        return None if at is None else ctypes.string_at(at, bytes_.value).decode(errors="replace")

    @property
    def out(self):
        return self._text(_lib.rehearsal_out) if self._handle else self._texts[0]

    @property
    def err(self):
        return self._text(_lib.rehearsal_err) if self._handle else self._texts[1]

    def file(self, name):
        """What the command wrote as memory:NAME."""
        return self._text(_lib.rehearsal_file, name.encode()) if self._handle else None

    def tables(self):
        """Names of tables, with name, type, unit and help of their columns."""
        return json.loads(_lib.rehearsal_tables(self._handle.pointer)) if self._handle else {}

    def column(self, table, name):
        """The values, without a copy, and the words that they are places in (or None)."""
        count, kind = ctypes.c_size_t(), ctypes.create_string_buffer(1)
        at = _lib.rehearsal_column(self._handle.pointer, table.encode(), name.encode(), ctypes.byref(count), kind)
        if at is None:
            raise KeyError(name)
        kind = _TYPES[kind.raw.decode()]
        values = (kind * count.value).from_address(at) if count.value else (kind * 0)()
        values.answer = self  # lives as long as its values
        words = _lib.rehearsal_words(self._handle.pointer, table.encode(), name.encode(), ctypes.byref(count))
        return values, [words[i].decode() for i in range(count.value)] if words else None


def version():
    return _lib.rehearsal_version().decode()
