# While this file exists, the service that the step needs is busy. The story closes and opens it.
while [ -e "$GATES/$RECOUP_STEP_ID" ]; do sleep 0.05; done
