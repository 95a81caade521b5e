#!/bin/sh
# The line to the exchange is bad on some days: it holds at the second try, on Tuesdays at the third.
case $1 in
  tue) works_at=3 ;;
  mon | thu) works_at=2 ;;
  *) works_at=1 ;;
esac
if [ "$RECOUP_ATTEMPT" -lt "$works_at" ]; then
  echo "curl: (56) Recv failure: connection reset by peer" >&2
  exit 56
fi
echo "rates of $1"
