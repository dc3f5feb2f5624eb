(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_isamap() {
  local -a found
  found=(${(f)"$(isamap --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
compdef _isamap isamap
