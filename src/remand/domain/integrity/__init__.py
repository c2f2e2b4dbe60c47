"""The integrity gate: finds what would make gates pass without the work being done.

`examine` looks at a change as it is written; `harness` says what a run takes from the base; `crossing` runs the
tests of one side on the code of the other. Everything here is pure: texts and outcomes in, suspicions out.
"""
