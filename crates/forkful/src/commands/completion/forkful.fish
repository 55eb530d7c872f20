# Completion of forkful for fish.
function __forkful_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete -- $words[2..] "$current" 2>/dev/null)
        if test "$line" = ":files"
            # In `--option=FILE` the file begins after the equals sign.
            set -l option (string match -r -- '^--[^=]+=' "$current")
            for path in (__fish_complete_path (string replace -r -- '^--[^=]+=' '' "$current"))
                echo -- "$option$path"
            end
        else
            echo -- $line
        end
    end
end
complete -c forkful -f -k -a '(__forkful_complete)'
