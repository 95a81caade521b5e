"""What anybody may ask of Recoup, once: a typed request in, a typed document out. Every edge calls these and only
translates.

    control.py   steer a run, or say what a control would do
"""
