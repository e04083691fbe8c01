"""The scorecard: your router on frozen tasks, compared with reference results and the cards of others."""
