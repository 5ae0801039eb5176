"""Statistics over trials: a trial is one run of a cell in a fresh process."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrik, stdtrit

CONFIDENCE = 0.95


WINDOWS = 5  # number of windows in which a store must be steady
MOST_SLOPE, MOST_RANGE = 0.10, 0.20  # largest when steady, as shares of the mean


class Steadiness(NamedTuple):
    """The rate in the last WINDOWS windows of a run, in operations per second; the slope over all
    windows and the range of their means, both as shares of the rate; and whether the run is steady.
    A shorter run is not steady, and its rate is NaN."""

    steady: bool
    rate: float
    slope: float
    range: float


def steadiness(counts: ArrayLike, window: int) -> Steadiness:
    """The steadiness of a run, from the number of operations in each complete second and the length
    of a window in seconds. With windows of 3 seconds or more, a store that slows down by 1% per
    second is not steady."""
    found = np.asarray(counts, float)
    if len(found) < WINDOWS * window:
        return Steadiness(False, np.nan, np.nan, np.nan)
    means = found[-WINDOWS * window :].reshape(WINDOWS, window).mean(axis=1)
    mean = means.mean()
    if mean == 0:
        return Steadiness(False, 0, np.nan, np.nan)
    slope = WINDOWS * np.polyfit(np.arange(WINDOWS), means, 1)[0] / mean
    spread = (means.max() - means.min()) / mean
    steady = abs(slope) <= MOST_SLOPE and spread <= MOST_RANGE
    return Steadiness(bool(steady), float(mean), float(slope), float(spread))


class Points(NamedTuple):
    """The points of an error bar: the median, least and greatest value of the trials, and their
    number."""

    median: float
    low: float
    high: float
    n: int


def points(values: ArrayLike) -> Points:
    """The error bar of one value per trial; NaN marks a missing value."""
    found = np.asarray(values, float)
    found = found[~np.isnan(found)]
    if not len(found):
        return Points(np.nan, np.nan, np.nan, 0)
    return Points(float(np.median(found)), float(found.min()), float(found.max()), len(found))


class Interval(NamedTuple):
    """A mean over trials, the bounds of its confidence interval, and the number of trials."""

    mean: float
    low: float
    high: float
    n: int


def mean_interval(values: ArrayLike) -> Interval:
    """The mean over the trials, and its interval at level CONFIDENCE by Student's t; NaN marks a
    missing value. If all values are positive, the mean is the geometric one. The bounds are NaN for
    one trial."""
    found = np.asarray(values, float)
    found = found[~np.isnan(found)]
    n = len(found)
    if not n:
        return Interval(np.nan, np.nan, np.nan, 0)
    positive = bool((found > 0).all())
    scaled = np.log(found) if positive else found
    mean, half = scaled.mean(), np.nan
    if n > 1:
        half = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * scaled.std(ddof=1) / math.sqrt(n)
    ends = np.array([mean, mean - half, mean + half])
    shown, low, high = (np.exp(ends) if positive else ends).tolist()
    return Interval(shown, low, high, n)


def median_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Points:
    """The median, and the narrowest pair of sorted values that contains the population median with
    this confidence, for any distribution. Raises ValueError if there are too few values; at 95%
    five are too few."""
    found = np.sort(np.asarray(values, float))
    n = len(found)
    place = (
        math.ceil(bdtrik((1 - confidence) / 2, n, 0.5)) if n else 0
    )  # by the binomial distribution
    if place == 0:
        raise ValueError(f"{n} values are too few for an interval of the median")
    return Points(float(np.median(found)), float(found[place - 1]), float(found[-place]), n)
