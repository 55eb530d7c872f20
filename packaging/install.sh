#!/bin/sh
# Installs Forkful from a release: verifies the tarball's SHA-256, then copies the program, its man pages and its completions.
#
#   sh install.sh                     the newest release, into ~/.local, as root into /usr/local
#   sh install.sh --version 0.1.0     this release
#   sh install.sh --prefix FOLDER     into FOLDER/bin and FOLDER/share
#   sh install.sh --from FOLDER|URL   from a folder with the files of a release, or from a mirror
#   sh install.sh --uninstall         removes what it has installed below the prefix; the daemon's files in ~/.forkful stay
#
# It needs tar, sha256sum, and curl or wget if the release is not a folder. It works in any POSIX shell.
set -eu

RELEASES=https://github.com/forkful/forkful/releases

say() { printf '%s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$1" >&2
  if [ $# -gt 1 ]; then printf '\nhint: %s\nsee: https://forkful.github.io/forkful/install#the-install-script\n' "$2" >&2; fi
  exit 1
}
usage() {
  cat <<'END'
Installs Forkful from a release.

  --version VERSION   this release instead of the newest
  --prefix FOLDER     where to: FOLDER/bin and FOLDER/share (default: ~/.local, as root /usr/local)
  --from FOLDER|URL   where the files of the release are
  --uninstall         remove what was installed below the prefix
  --help              this text
END
}

platform() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-amd64) say linux-x64 ;;
    Linux-aarch64 | Linux-arm64) say linux-arm64 ;;
    *) fail "there is no forkful for $(uname -s) on $(uname -m), only for Linux on x64 and arm64" ;;
  esac
}

# Puts a file of the release at a path.
fetch() {
  case $from in
    http://* | https://*)
      if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --output "$2" "$from/$1" || fail "$from/$1 cannot be fetched"
      elif command -v wget >/dev/null 2>&1; then
        wget -q -O "$2" "$from/$1" || fail "$from/$1 cannot be fetched"
      else
        fail "neither curl nor wget is installed" "install one of them, or fetch the release yourself and name its folder with --from"
      fi
      ;;
    *)
      [ -f "$from/$1" ] || fail "$from has no $1" "--from names a folder with a release's tarballs and its SHA256SUMS"
      cp "$from/$1" "$2"
      ;;
  esac
}

# Copies a file beside its destination and then renames it: a running program cannot be overwritten.
place() {
  mkdir -p "${2%/*}" || fail "${2%/*} cannot be created" "name another folder with --prefix, or run this as root"
  cp "$1" "$2.new" || fail "$2 cannot be written" "name another folder with --prefix, or run this as root"
  chmod "$3" "$2.new"
  mv -f "$2.new" "$2"
}

install_release() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  here=$(platform)
  fetch SHA256SUMS "$work/SHA256SUMS"
  # A line of the sums is "SUM  forkful-VERSION-PLATFORM.tar.gz".
  archive=$(sed -n "s/^[0-9a-f]\{64\}[ *]*\(forkful-[0-9][0-9A-Za-z.-]*-$here\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
  [ -n "$archive" ] || fail "SHA256SUMS of $from names no tarball for $here"
  if [ -n "$version" ] && [ "$archive" != "forkful-$version-$here.tar.gz" ]; then
    fail "$from has $archive, not version $version"
  fi
  fetch "$archive" "$work/$archive"
  grep "  *\**$archive\$" "$work/SHA256SUMS" >"$work/sum"
  (cd "$work" && sha256sum -c sum >/dev/null 2>&1) || fail "the SHA-256 of $archive is not that of SHA256SUMS; nothing was installed"
  mkdir "$work/unpacked"
  # busybox's tar has no --no-same-owner; the files are copied as this user anyway.
  (cd "$work/unpacked" && gzip -dc "../$archive" | tar xf -)
  root=$work/unpacked/${archive%.tar.gz}
  "$root/bin/forkful" --version >/dev/null || fail "the program of $archive does not run on this machine"

  (cd "$root" && find bin share -type f) >"$work/files"
  while IFS= read -r file; do
    case $file in bin/*) mode=755 ;; *) mode=644 ;; esac
    place "$root/$file" "$prefix/$file" "$mode"
  done <"$work/files"
  say "$("$prefix/bin/forkful" --version) is in $prefix/bin"
  case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) say "note: $prefix/bin is not in PATH; add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
  if ! command -v node >/dev/null 2>&1; then say "note: there is no node in PATH; Forkful runs apps with Node.js 18 or later"; fi
  if [ -n "$before" ]; then say "note: \`forkful update\` updates a running daemon to this version"; fi
}

uninstall() {
  [ -f "$prefix/bin/forkful" ] || fail "there is no $prefix/bin/forkful" "name the folder with --prefix"
  rm -f "$prefix/bin/forkful" "$prefix/share/man/man1/forkful.1" "$prefix/share/bash-completion/completions/forkful" \
    "$prefix/share/zsh/site-functions/_forkful" "$prefix/share/fish/vendor_completions.d/forkful.fish"
  rm -f "$prefix"/share/man/man1/forkful-*.1
  rm -rf "$prefix/share/doc/forkful"
  say "removed from $prefix; a running daemon continues until it is killed or until the next boot, and its files in ~/.forkful stay"
}

# Everything is in one function, so that an incomplete download of this script does nothing.
main() {
  version='' from='' remove=''
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:-}/.local; fi
  while [ $# -gt 0 ]; do
    case $1 in
      --version | --prefix | --from)
        [ -n "${2:-}" ] || fail "$1 needs a value"
        case $1 in
          --version) version=${2#v} ;;
          --prefix) prefix=${2%/} ;;
          --from) from=${2%/} ;;
        esac
        shift 2
        ;;
      --uninstall) remove=yes; shift ;;
      -h | --help) usage; exit 0 ;;
      *) fail "there is no option $1" "--help lists the options" ;;
    esac
  done
  case $version in *[!0-9A-Za-z.-]*) fail "$version is not a version" ;; esac
  case $prefix in /?*) ;; *) fail "--prefix is '$prefix', which is not an absolute path" ;; esac
  if [ -n "$remove" ]; then uninstall; exit 0; fi
  if [ -z "$from" ]; then
    if [ -n "$version" ]; then from=$RELEASES/download/v$version; else from=$RELEASES/latest/download; fi
  fi
  before=''
  if [ -e "$prefix/bin/forkful" ]; then before=yes; fi
  install_release
}

main "$@"
