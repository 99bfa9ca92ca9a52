"""Who asks: keys, accounts and their tokens, and how often they may."""
