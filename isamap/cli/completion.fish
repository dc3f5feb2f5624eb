function __isamap_complete
  set -l words (commandline -opc)
  set -e words[1]
  isamap --complete $words (commandline -ct) 2>/dev/null
end
complete -c isamap -a '(__isamap_complete)'
