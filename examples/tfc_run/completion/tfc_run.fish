# fish completion for tfc_run; "tfc_run completion fish" prints this script.

function __tfc_run_complete
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	set -l option (string match -r -- '^--[^=]*=' $word)
	set -l value (string replace -r -- '^--[^=]*=' '' $word)
	for line in ($words[1] --complete $words[2..-1] "$word" 2>/dev/null)
		switch $line
			case file
				printf '%s\n' "$option"(__fish_complete_path "$value")
			case directory
				printf '%s\n' "$option"(__fish_complete_directories "$value")
			case command
				__fish_complete_command
			case '*'
				echo $line
		end
	end
end

complete -c tfc_run -f -a '(__tfc_run_complete)'
