# Write LINES numbered lines, sleep for SECONDS, write LINES more, and end.
i=0
for burst in 1 2; do
    while [ $i -lt $(($1 * burst)) ]; do
        echo "line $i"
        i=$((i + 1))
    done
    if [ $burst = 1 ]; then sleep "$2"; fi
done
