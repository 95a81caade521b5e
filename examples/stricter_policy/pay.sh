#!/bin/sh
# The bank has been moving since Tuesday: whoever knocks is sent away, however often.
case $1 in
  tue | wed | fri)
    echo "HTTP 503: service unavailable" >&2
    exit 1
    ;;
esac
echo "paid on $1"
