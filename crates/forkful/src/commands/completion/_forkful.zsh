#compdef forkful
# Completion of forkful for zsh.

# Sets `reply` to the words up to the cursor without their quotes, of which the last may still be open: (Q) changes nothing then.
_forkful_unquoted() {
  local closed close
  reply=("${(@Q)words[1,CURRENT]}")
  for close in '' \' \"; do
    closed=${words[CURRENT]}$close
    if [[ ${(Q)closed} != "$closed" ]]; then
      reply[CURRENT]=${(Q)closed}
      break
    fi
  done
  [[ ${words[1]} == \~* ]] && reply[1]=${~reply[1]}
}

_forkful() {
  local line word files=
  local -a lines candidates reply
  _forkful_unquoted
  lines=("${(@f)$("${reply[1]}" complete -- "${(@)reply[2,CURRENT]}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    if [[ $line == :files ]]; then
      files=yes
    elif [[ -n $line ]]; then
      word=${line%%$'\t'*}
      candidates+=("${${word//\\/\\\\}//:/\\:}:${line#*$'\t'}")
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
