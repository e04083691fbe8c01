"""Module networks and plain networks on questions about pairs of letters and digits."""

FAMILY = "sqoop"
TREES = ("all_all_all_bn", "all_sub_all_bn")
PLAIN = ("film", "mac")
