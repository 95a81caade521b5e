# Every attempt of every step signs here, so that what really happened can be compared with what is recorded.
echo "$RECOUP_RUN_ID $RECOUP_STEP_ID $RECOUP_ATTEMPT" >> "$JOURNAL"
