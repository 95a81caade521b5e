#!/bin/bash
# What each customer bought on one day, for people to read.
set -eu
. ./journal.sh
echo "Sales of $1"
awk -F, 'NR > 1 { sum[$2] += $3 } END { for (name in sum) print name, sum[name] }' clean.csv | sort
echo "dropped $2"
echo "TOTAL $3"
