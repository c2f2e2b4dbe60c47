"""The rules of the integrity gate, one module for each class of finding."""
