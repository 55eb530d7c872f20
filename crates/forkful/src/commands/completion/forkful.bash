# Completion of forkful for bash 4.4 and newer.

# Splits $1, the line up to the cursor, into `words` without their quotes. `quote` is the quote that the last word leaves open, and
# `lead` is the part of the last word that readline does not replace: up to the open quote or the last of COMP_WORDBREAKS.
_forkful_split() {
  local line=$1 c word= begun= i
  words=() quote= lead=
  for (( i = 0; i < ${#line}; i++ )); do
    c=${line:i:1}
    if [[ -n $quote ]]; then
      if [[ $c == "$quote" ]]; then
        quote=
      elif [[ $quote$c == '"\' && ${line:i+1:1} == [\"\\\$\`] ]]; then
        (( i++ ))
        word+=${line:i:1}
      else
        word+=$c
      fi
      continue
    fi
    case $c in
      [[:space:]])
        [[ -n $begun ]] && words+=("$word")
        word= begun= lead=
        continue
        ;;
      [\"\'])
        quote=$c lead=$word
        ;;
      \\)
        (( i++ ))
        word+=${line:i:1}
        ;;
      *)
        word+=$c
        [[ $COMP_WORDBREAKS == *"$c"* ]] && lead=$word
        ;;
    esac
    begun=yes
  done
  words+=("$word")
}

# Adds a candidate, without the part that stays in the line and with the quotes that the line needs.
_forkful_add() {
  local rest=${1#"$lead"} quoted
  [[ $1 == "$lead"* && -n $rest ]] || return
  case $quote in
    \")
      quoted=${rest//\\/\\\\} quoted=${quoted//\"/\\\"} quoted=${quoted//\$/\\\$} quoted=${quoted//\`/\\\`}
      ;;
    \')
      quoted=${rest//\'/\'\\\'\'}
      ;;
    *)
      printf -v quoted '%q' "$rest"
      # The home of a user, which compgen leaves as it is.
      [[ $2 == file && $rest == \~* ]] && quoted=${quoted#\\}
      ;;
  esac
  COMPREPLY+=("$quoted")
}

_forkful() {
  local words quote lead word prefix= line files=
  COMPREPLY=()
  _forkful_split "${COMP_LINE:0:COMP_POINT}"
  word=${words[-1]}
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
    else
      _forkful_add "${line%%$'\t'*}"
    fi
  done < <("${COMP_WORDS[0]}" complete -- "${words[@]:1}" 2>/dev/null)
  [[ -n $files ]] || return
  [[ $word == --*=* ]] && prefix=${word%%=*}=
  if (( ${#COMPREPLY[@]} == 0 )) && [[ -z $lead$prefix ]]; then
    # Readline then quotes names, shows them without their directories, and adds a slash to directories.
    compopt -o filenames
    while IFS= read -r line; do
      COMPREPLY+=("$line")
    done < <(compgen -f -- "$word")
    return
  fi
  while IFS= read -r line; do
    if [[ -d ${line/#\~\//$HOME/} ]]; then
      line+=/
      compopt -o nospace
    fi
    _forkful_add "$prefix$line" file
  done < <(compgen -f -- "${word#"$prefix"}")
}
complete -o nosort -F _forkful forkful
