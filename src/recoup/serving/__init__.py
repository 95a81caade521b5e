"""What every server of ours does before a request is understood: it bounds connections and counts wrong tokens.

connections.py  how long a connection is waited for
places.py       how many there may be, and which one goes when there are too many
brake.py        wrong tokens, counted by address
mistakes.py     what nobody foresaw, in the log under an id
"""
