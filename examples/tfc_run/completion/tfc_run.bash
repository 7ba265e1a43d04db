# bash completion for tfc_run; "tfc_run completion bash" prints this script.

_tfc_run()
{
	local rest=${COMP_LINE:0:COMP_POINT} blanks word line value path broken= i
	local -a words=()

	# bash splits words at = and :, too: join them again.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		blanks=${rest%%[![:blank:]]*}
		rest=${rest#"$blanks"}
		word=${COMP_WORDS[i]}
		((i == COMP_CWORD)) && word=$rest
		rest=${rest#"$word"}
		if [[ $blanks ]] || ((i == 0)); then
			words+=("$word")
		else
			words[-1]+=$word
		fi
	done

	word=${words[-1]}
	value=$word
	[[ $word == --*=* ]] && value=${word#*=}
	set -- "${words[@]/#\~\//$HOME/}"
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		*$'\t'*) COMPREPLY+=("${line%%$'\t'*}") ;;
		*)
			compopt -o filenames
			while IFS= read -r path; do
				COMPREPLY+=("${word%"$value"}$path")
			done < <(compgen -A "$line" -- "$value") ;;
		esac
	done < <("$1" --complete "${@:2}" 2>/dev/null)

	# Of a word that bash splits, only the part behind the last = or : is replaced.
	i=${COMP_WORDBREAKS//[^=:]/}
	[[ $i && $word == *["$i"]* ]] && broken=${word%"${word##*["$i"]}"}
	COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}

complete -F _tfc_run tfc_run
