"""Why nothing agrees with what a person fixed, or with what a machine has."""
