"""What is in the bundle: Debian packages, files of them, files of the repository, and the archive of each file."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from deploy.local.errors import LocalError

LIMIT = 60 * 1024 * 1024  # bytes of an archive
RELEASE = "bookworm"  # of Debian, whose packages these are
PYTHON = ("libpython3.11-minimal", "libpython3.11-stdlib", "libpython3.11", "python3.11-minimal")
POSTGRESQL = ("postgresql-15", "postgresql-client-15", "libpq5")
ERLANG = ("base", "asn1", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools", "public-key")
MORE_ERLANG = ("runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl")
RABBITMQ = ("rabbitmq-server", *(f"erlang-{name}" for name in (*ERLANG, *MORE_ERLANG)))
LIBRARIES = (
    "libaudit1",
    "libbz2-1.0",
    "libcap2",
    "libcap-ng0",
    "libcom-err2",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "libgcrypt20",
    "libgmp10",
    "libgnutls30",
    "libgpg-error0",
    "libgssapi-krb5-2",
    "libhogweed6",
    "libicu72",
    "libidn2-0",
    "libk5crypto3",
    "libkeyutils1",
    "libkrb5-3",
    "libkrb5support0",
    "libldap-2.5-0",
    "liblz4-1",
    "liblzma5",
    "libnettle8",
    "libp11-kit0",
    "libpam0g",
    "libpcre2-8-0",
    "libreadline8",
    "libsasl2-2",
    "libselinux1",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "libsystemd0",
    "libtasn1-6",
    "libtinfo6",
    "libunistring2",
    "libuuid1",
    "libxml2",
    "libxslt1.1",
    "libzstd1",
    "zlib1g",
)
# util-linux has setpriv, base-files the licences that packages share, and gcc-12-base that of the compiler's libraries.
PACKAGES = (*PYTHON, *POSTGRESQL, *RABBITMQ, *LIBRARIES, "util-linux", "base-files", "gcc-12-base")
TOOLS = ("patchelf",)  # needed to build only

KEPT = (
    "usr/bin/python3.11",
    "usr/bin/setpriv",
    "usr/lib/erlang/*",
    "usr/lib/postgresql/*",
    "usr/lib/python3.11/*",
    "usr/lib/rabbitmq/lib/*",
    "usr/lib/x86_64-linux-gnu/lib*.so*",
    "usr/share/common-licenses/*",
    "usr/share/postgresql/15/*",
)
LEFT_OUT = (
    "usr/lib/erlang/lib/erl_interface-*",
    "usr/lib/postgresql/*/bitcode/*",
    "usr/lib/postgresql/*/llvmjit*",  # the stack compiles no statements, and LLVM is large
    "usr/lib/python3.11/EXTERNALLY-MANAGED",
    "usr/lib/python3.11/config-*",
    "usr/lib/python3.11/*/test/*",
    "usr/lib/python3.11/test/*",
    "usr/lib/python3.11/lib-dynload/_crypt.*",
    "usr/lib/python3.11/lib-dynload/_curses*",
    "usr/lib/python3.11/lib-dynload/_dbm.*",
    "usr/lib/python3.11/lib-dynload/_test*",
    "usr/lib/python3.11/lib-dynload/_xxtest*",
    "usr/lib/python3.11/lib-dynload/nis.*",
    "usr/lib/python3.11/lib-dynload/ossaudiodev.*",
    "usr/lib/python3.11/lib-dynload/readline.*",
    "usr/lib/python3.11/lib-dynload/xxlimited*",
    "usr/lib/python3.11/sitecustomize.py",  # a link to Debian's configuration
    "usr/lib/x86_64-linux-gnu/*/*",
    "usr/lib/x86_64-linux-gnu/libexpatw.so*",
    "usr/share/postgresql/15/man/*",
)
# A process that embeds Python gets this folder as LD_LIBRARY_PATH: it must have no library that a shell needs.
EMBEDDED = ("libpython3.11.so.1.0", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1")

# On an older glibc than they need, the installer leaves these to the system: Python and C++ programs bring them.
OF_THE_SYSTEM = ("usr/lib/libstdc++.so.6", "usr/lib/x86_64-linux-gnu/libexpat.so.1")

SOURCES = ("benchmarks", "client/charonia", "common", "console", "deploy/local", "deploy/models", "services")
MORE_SOURCES = ("LICENSE", "deploy/__init__.py", "deploy/bundle/commands", "tests/__init__.py", "tests/support")
STUBS = ("3.11", "3.12")  # versions of Python that Triton's models may have


@dataclass(frozen=True)
class Archive:
    """`paths` are patterns of the files in an installation."""

    name: str
    paths: tuple[str, ...]


# A file is in the first archive that has a pattern for it.
ARCHIVES = (
    Archive("postgresql", ("usr/lib/postgresql/*", "usr/share/postgresql/*")),
    Archive("rabbitmq", ("usr/lib/erlang/*", "usr/lib/rabbitmq/*")),
    Archive("python", ("usr/*",)),
    Archive("services", ("app/*", "services/*")),
    Archive("models-opencv", ("triton/lib/*/cv2/*", "triton/lib/*/opencv_python_headless*")),
    Archive(
        "triton", ("triton/lib/*/pytriton/*", "triton/lib/*/nvidia_pytriton*", "triton/lib/*/numpy*", "triton/bin/*")
    ),
    Archive("models", ("triton/*",)),
)


def is_kept(path: str) -> bool:
    """Return whether this file of a Debian package is in the bundle."""
    return _matches(path, KEPT) and not _matches(path, LEFT_OUT)


def assign(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the files of each archive, the same kinds side by side; raise LocalError for a file without one."""
    assigned: dict[str, list[str]] = {archive.name: [] for archive in ARCHIVES}
    for path in sorted(paths, key=lambda path: (PurePosixPath(path).suffix, path)):
        found = next((archive for archive in ARCHIVES if _matches(path, archive.paths)), None)
        if found is None:
            raise LocalError(f"{path} is in no archive: add a pattern to ARCHIVES in deploy/bundle/parts.py")
        assigned[found.name].append(path)
    return assigned


def check_sizes(sizes: dict[str, int], limit: int = LIMIT) -> None:
    """Raise LocalError, which names them, if archives are too large."""
    large = [f"{name} has {size:,} bytes" for name, size in sorted(sizes.items()) if size > limit]
    if large:
        text = ", ".join(large)
        raise LocalError(f"{text}, but {limit:,} are allowed: divide it in ARCHIVES in deploy/bundle/parts.py")


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
