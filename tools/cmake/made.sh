#!/bin/sh
# made.sh PROGRAM FOLDER: manual pages, completions and the schema, as the program PROGRAM says them.
set -eu
program=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
REHEARSE=$program "$(dirname "$0")/../man" --folder "$folder/man"
gzip -9n "$folder"/man/*.1
"$program" completion bash --output "$folder/rehearse.bash"
"$program" completion fish --output "$folder/rehearse.fish"
# zsh loads this file when rehearse is completed for the first time: it defines the function of its own name, and calls it.
{
  echo '#compdef rehearse'
  "$program" completion zsh | sed '/^autoload -U +X compinit/d'
  echo '_bash_complete -F _rehearse'
} >"$folder/_rehearse"
"$program" check --schema --output "$folder/scenario.schema.json"
