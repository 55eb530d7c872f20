# Completion of forkful for fish.

# Prints $argv[1], a word up to the cursor, without its quotes; fish keeps them, and the last quote may still be open.
function __forkful_unquoted
    string unescape -- "$argv[1]"
    or string unescape -- "$argv[1]'"
    or string unescape -- "$argv[1]\""
    or echo -- "$argv[1]"
end

function __forkful_complete
    set -l words (commandline -opc)
    set -l current (__forkful_unquoted (commandline -ct))
    # The words are without their quotes, but a tilde is as it was typed.
    set -l program (string replace -r -- '^~(?=/)' "$HOME" $words[1])
    for line in ($program complete -- $words[2..] "$current" 2>/dev/null)
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
