"""Operations written for speed. A textbook form of each is the oracle of its tests."""
