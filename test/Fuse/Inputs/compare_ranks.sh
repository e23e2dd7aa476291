# compare_ranks.sh FILE RANKS OPTIONS LAYERS WIDTH ...: makes a backward pass, puts
# its reductions into buckets, and compares what all ranks compute.
set -e
file=$1 ranks=$2 options=$3
shift 3
folder=$(dirname "$0")
python3 "$folder/make_backward.py" --ranks "$ranks" "$@" > "$file"
fusion-opt "$file" "--fusion-bucket-collectives=$options" -o "$file.after"
fusion-interpret "$file" --ranks "$ranks" --random-inputs 7 --output-dir "$file.expected"
fusion-interpret "$file.after" --ranks "$ranks" --random-inputs 7 --output-dir "$file.actual"
diff -r "$file.expected" "$file.actual"
test "$(ls "$file.expected" | wc -l)" = "$ranks"
