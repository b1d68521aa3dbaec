"""Where a path of the user's is for this trial: the real file, or its copy in the shadow folder.

    <shadow>/tree/<path>    what the trial wrote; folders appear as they are needed
    <shadow>/gone/<path>    an empty file where the trial removed (or must not see) what is really there

A marker in `gone` stays when the path is made anew: what the real folder held remains unseen. All is on disk,
so all Python processes of the trial agree. Everything here calls the true functions, taken before they are
wrapped.
"""

import errno
import os
import stat

_SYSTEM = ("/proc", "/sys", "/dev", "/run")
_CACHE_MAX = 20_000

true = {name: getattr(os, name) for name in (
    "stat", "lstat", "mkdir", "unlink", "rmdir", "rename", "replace", "listdir", "scandir", "readlink",
    "getcwd", "chdir", "open", "access", "link", "symlink", "truncate", "chmod", "utime",
)}  # fmt: skip
true_open = open


class Shadow:
    def __init__(self, root, hidden=(), through=()):
        self.tree = os.path.join(root, "tree")
        self.gone = os.path.join(root, "gone")
        self.through = (*_SYSTEM, root, *through)
        self._parents = {}
        for folder in (self.tree, self.gone):
            _make_folders(folder)
        for path in hidden:
            if not _exists(self.tree + path):
                self._mark_gone(path)

    # -- names -----------------------------------------------------------------------------------------

    def name(self, path, dir_fd=None, follow=True):
        """The user's name of a path: absolute, links resolved; None where it is not guarded."""
        if isinstance(path, int):
            return None
        path = os.fsdecode(path)
        if not path:
            return None
        if path[0] != "/":
            path = os.path.join(self.cwd() if dir_fd is None else self._of_descriptor(dir_fd), path)
        if path.startswith(self.tree + "/"):  # a name that leaked, from `stream.name`
            path = path[len(self.tree) :]
        path = self._resolved(os.path.normpath(path), follow)
        if path.startswith(self.tree + "/"):
            path = path[len(self.tree) :]
        for folder in self.through:
            if path == folder or path.startswith(folder + "/"):
                return None
        return path

    def cwd(self):
        here = true["getcwd"]()
        return here[len(self.tree) :] or "/" if here.startswith(self.tree + "/") else here

    def _of_descriptor(self, descriptor):
        return true["readlink"]("/proc/self/fd/%d" % descriptor)

    def _resolved(self, path, follow):
        parent, base = os.path.split(path)
        known = self._parents.get(parent)
        if known is None:
            known = _realpath(parent)
            if len(self._parents) < _CACHE_MAX:
                self._parents[parent] = known
        path = os.path.join(known, base)
        if follow:
            target = self._link_target(path)
            if target is not None:
                return _realpath(os.path.join(known, target))
        return path

    def _link_target(self, path):
        try:
            return true["readlink"](self.place(path))
        except OSError:
            return None

    # -- looking ---------------------------------------------------------------------------------------

    def place(self, name):
        """Where to read it now; of what was removed, a place that does not exist."""
        copy = self.tree + name
        if _exists(copy) or self.is_gone(name):
            return copy
        return name

    def is_gone(self, name):
        try:
            return stat.S_ISREG(true["lstat"](self.gone + name).st_mode)
        except NotADirectoryError:  # a folder above it is gone
            return True
        except OSError:
            return False

    def exists(self, name):
        return _exists(self.place(name))

    def is_folder(self, name):
        try:
            return stat.S_ISDIR(true["stat"](self.place(name)).st_mode)
        except OSError:
            return False

    def has_real(self, name):
        return _exists(name) and not self.is_gone(name)

    def listing(self, name):
        """Names in a folder: those of the copy, and the real ones that are not covered or gone."""
        copy = self.tree + name
        names = list(true["listdir"](copy)) if _is_folder(copy) else []
        if self.has_real(name) and _is_folder(name):
            seen = set(names)
            join = name.rstrip("/") + "/"
            names += [n for n in true["listdir"](name) if n not in seen and not self.is_gone(join + n)]
        elif not _is_folder(copy):
            true["listdir"](self.place(name))  # raises what it should
        return names

    # -- changing --------------------------------------------------------------------------------------

    def for_writing(self, name, keep=True):
        """The copy's place, its folder made; with `keep` the content is there, too."""
        copy = self.tree + name
        if not _exists(copy):
            self.make_parent(name)
            if self.has_real(name) and not _is_folder(name):
                if not true["access"](name, os.W_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
                if keep:
                    _copy(name, copy)
            elif self.has_real(name) and _is_folder(name):
                _make_folders(copy)
        return copy

    def make_parent(self, name):
        """Only where the trial sees one: a missing folder stays an error."""
        parent = os.path.dirname(name)
        if self.is_folder(parent):
            if not _exists(self.tree + parent) and not true["access"](parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
            _make_folders(self.tree + parent)

    def remove(self, name, folder):
        copy = self.tree + name
        if not self.exists(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if folder and self.listing(name):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
        if not folder and self.is_folder(name) and not _is_link(self.place(name)):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if _exists(copy):
            true["rmdir" if _is_folder(copy) and not _is_link(copy) else "unlink"](copy)
        if self.has_real(name):
            self._mark_gone(name)

    def _mark_gone(self, name):
        marker = self.gone + name
        if _is_folder(marker):
            _remove_all(marker)
        try:
            _make_folders(os.path.dirname(marker))
        except (FileExistsError, NotADirectoryError):  # a folder above is gone already
            return
        with true_open(marker, "w"):
            pass

    def rename(self, source, target):
        if not self.exists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.copy_up(source)
        self.make_parent(target)
        true["replace"](self.tree + source, self.tree + target)
        if self.has_real(source):
            self._mark_gone(source)
        if self.has_real(target) and _is_folder(target):
            self._mark_gone(target)

    def forget(self, name):
        """Its copy has been moved out of the guarded folders."""
        if self.has_real(name):
            self._mark_gone(name)

    def copy_up(self, name):
        """With all below it."""
        if _is_link(self.place(name)) or not self.is_folder(name):
            self.for_writing(name)
            return
        self.make_parent(name)
        _make_folders(self.tree + name)
        for child in self.listing(name):
            self.copy_up(name.rstrip("/") + "/" + child)


def _copy(source, target):
    if _is_link(source):
        true["symlink"](true["readlink"](source), target)
        return
    with true_open(source, "rb") as reader, true_open(target, "wb") as writer:
        while True:
            block = reader.read(1 << 20)
            if not block:
                break
            writer.write(block)
    found = true["stat"](source)
    true["chmod"](target, stat.S_IMODE(found.st_mode))
    true["utime"](target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _remove_all(folder):
    for name in true["listdir"](folder):
        path = os.path.join(folder, name)
        if _is_folder(path):
            _remove_all(path)
        else:
            true["unlink"](path)
    true["rmdir"](folder)


def _make_folders(path):
    try:
        true["mkdir"](path)
    except FileExistsError:
        if not _is_folder(path):
            raise
    except FileNotFoundError:
        _make_folders(os.path.dirname(path))
        _make_folders(path)


def _realpath(path):
    """As os.path.realpath, which would call what we have wrapped."""
    done = ""
    rest = path.split("/")[::-1]
    followed = 0
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        try:
            target = true["readlink"](done + "/" + part) if followed < 40 else None
        except OSError:
            target = None
        if target is None:
            done += "/" + part
            continue
        followed += 1
        done = "" if target.startswith("/") else done
        rest += target.split("/")[::-1]
    return done or "/"


def _exists(path):
    try:
        true["lstat"](path)
        return True
    except OSError:
        return False


def _is_folder(path):
    try:
        return stat.S_ISDIR(true["stat"](path).st_mode)
    except OSError:
        return False


def _is_link(path):
    try:
        return stat.S_ISLNK(true["lstat"](path).st_mode)
    except OSError:
        return False
