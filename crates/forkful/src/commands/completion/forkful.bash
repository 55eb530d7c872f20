# Completion of forkful for bash 4.4 and newer.
_forkful() {
  local cur=${COMP_WORDS[COMP_CWORD]} line files=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
    else
      COMPREPLY+=("$(printf '%q' "${line%%$'\t'*}")")
    fi
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ -n $files ]]; then
    # Readline then quotes names with blanks, and adds a slash to directories.
    compopt -o filenames
    while IFS= read -r line; do
      COMPREPLY+=("$line")
    done < <(compgen -f -- "$cur")
  fi
}
complete -o nosort -F _forkful forkful
