#compdef forkful
# Completion of forkful for zsh.
_forkful() {
  local line files=
  local -a lines candidates
  lines=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    if [[ $line == :files ]]; then
      files=yes
    elif [[ -n $line ]]; then
      candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  local result=1
  (( $#candidates )) && _describe -V 'forkful' candidates && result=0
  if [[ -n $files ]]; then
    # In `--option=FILE` the file begins after the equals sign.
    compset -P 1 '--*='
    _files && result=0
  fi
  return result
}
if [[ ${funcstack[1]} == _forkful ]]; then
  _forkful "$@"
else
  compdef _forkful forkful
fi
