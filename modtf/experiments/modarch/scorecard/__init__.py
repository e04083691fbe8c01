"""The scorecard: a newcomer on frozen tasks, beside reference rows and the cards of other laboratories."""
