"""modtf: do the modules of a modular neural network specialise, and does it help?"""
