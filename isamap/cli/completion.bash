_isamap() {
  local IFS=$'\n'
  COMPREPLY=($(isamap --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _isamap isamap
